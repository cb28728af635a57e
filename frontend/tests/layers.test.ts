import { readdirSync, readFileSync } from "node:fs";
import { join, normalize, relative } from "node:path";
import { describe, expect, it } from "vitest";

// A folder imports itself and folders of a lower rank; folders of one rank do not know each other.
const RANK: Record<string, number> = {
  api: 0,
  document: 1,
  commands: 2,
  ui: 3,
  views: 4,
  inspector: 4,
  app: 5,
};
const PURE = ["api", "document", "commands"];
const SRC = join(import.meta.dirname, "../src");

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) =>
  /\.tsx?$/.test(file),
);

function imports(file: string): string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*["']([^"']+)["']/g)].map((m) => m[1] ?? "");
}

describe("folders of src", () => {
  it.each(files)("%s imports only from its own folder and from below", (file) => {
    const folder = file.split("/")[0] ?? "";
    expect(RANK).toHaveProperty(folder);
    for (const name of imports(file)) {
      if (!name.startsWith(".")) {
        if (PURE.includes(folder)) expect(name, "no React below ui").not.toMatch(/react|mantine/);
        continue;
      }
      const other = relative(SRC, normalize(join(SRC, file, "..", name))).split("/")[0] ?? "";
      if (other !== folder) {
        expect(RANK[other], `${file} imports ${name}`).toBeLessThan(RANK[folder] ?? 0);
      }
    }
  });
});
