import { describe, expect, it } from "vitest";
import { highlight } from "./highlight";

const kinds = (path: string, text: string) =>
  highlight(path, text)
    .flat()
    .filter((token) => token.kind !== "plain")
    .map((token) => [token.kind, token.text]);

const whole = (path: string, text: string) =>
  highlight(path, text)
    .map((line) => line.map((token) => token.text).join(""))
    .join("\n");

it("tells the words of Python apart", () => {
  expect(kinds("a.py", 'def f(x):  # why\n    return "a#b" + 1.5e3')).toEqual([
    ["keyword", "def"],
    ["name", "f"],
    ["comment", "# why"],
    ["keyword", "return"],
    ["string", '"a#b"'],
    ["number", "1.5e3"],
  ]);
});

it("takes what is inserted into a string for code", () => {
  expect(kinds("a.py", 'f"{x + 1} b"')).toContainEqual(["number", "1"]);
});

it("splits what spans lines at their ends", () => {
  const lines = highlight("a.py", 'x = """two\nlines"""\n\ny = 1\n');
  expect(lines.map((line) => line.map((token) => token.kind))).toEqual([
    ["plain", "string"],
    ["string"],
    [],
    ["plain", "number"],
    [],
  ]);
});

describe.each([
  ["a.py", '@dataclass\nclass A(B):\n    """Doc."""\n\n    x: int = 3\n'],
  ["launch.sh", '#!/usr/bin/env bash\nexec torchrun --nnodes "$NNODES" train.py "$@"\n'],
  ["plan.json", '{"a": [1, true, null], "b<c>": "&amp;"}\n'],
  ["README.md", "# Title\n\n```bash\nx\n```\n- `a` **b**\n"],
  ["job.yaml", "a:\n  - b: 1 # c\n"],
  ["unknown", "if not\n"],
])("%s", (path, text) => {
  it("keeps its text as it is", () => expect(whole(path, text)).toBe(text));
});

it("leaves unknown files plain", () => expect(kinds("LICENSE", "if not")).toEqual([]));
