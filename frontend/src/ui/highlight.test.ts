import { expect, it } from "vitest";
import { highlight } from "./highlight";

const kinds = (path: string, text: string) =>
  highlight(path, text)
    .filter((token) => token.kind !== "plain")
    .map((token) => [token.kind, token.text]);

it("tells the words of Python apart", () => {
  expect(kinds("a.py", 'def f(x):  # why\n    return "a#b" + 1.5e3')).toEqual([
    ["keyword", "def"],
    ["comment", "# why"],
    ["keyword", "return"],
    ["string", '"a#b"'],
    ["number", "1.5e3"],
  ]);
});

it("keeps the text as it is, and leaves other files plain", () => {
  const text = 'x = """two\nlines""" # end\n';
  expect(
    highlight("a.py", text)
      .map((token) => token.text)
      .join(""),
  ).toBe(text);
  expect(kinds("README.md", "if not")).toEqual([]);
});
