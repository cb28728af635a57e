// Source in colours: highlight.js tells words apart, by lines, for React to draw.
import bash from "highlight.js/lib/languages/bash";
import ini from "highlight.js/lib/languages/ini";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

export type Kind =
  | "plain"
  | "keyword"
  | "string"
  | "comment"
  | "number"
  | "name"
  | "builtin"
  | "attribute";

export interface Token {
  kind: Kind;
  text: string;
}

const LANGUAGES: Record<string, string> = {
  py: "python",
  json: "json",
  sh: "bash",
  sbatch: "bash",
  toml: "ini",
  md: "markdown",
  yaml: "yaml",
  yml: "yaml",
};

/** highlight.js' many classes as the few that look different. */
const KINDS: Record<string, Kind> = {
  "hljs-keyword": "keyword",
  "hljs-literal": "keyword",
  "hljs-string": "string",
  "hljs-code": "string",
  "hljs-comment": "comment",
  "hljs-quote": "comment",
  "hljs-number": "number",
  "hljs-title": "name",
  "hljs-section": "name",
  "hljs-built_in": "builtin",
  "hljs-meta": "builtin",
  "hljs-variable": "builtin",
  "hljs-attr": "attribute",
  "hljs-bullet": "keyword",
  // What is inserted into a string is code again, and arguments are plain names.
  "hljs-subst": "plain",
  "hljs-params": "plain",
};

const lowlight = createLowlight({ bash, ini, json, markdown, python, yaml });

/** What of a syntax tree is read here. */
interface Tree {
  type: string;
  value?: string;
  properties?: { className?: unknown };
  children?: readonly Tree[];
}

/** The lines of a text as tokens, without the newlines; of an unknown language as they are. */
export function highlight(path: string, text: string): Token[][] {
  const language = LANGUAGES[path.slice(path.lastIndexOf(".") + 1)];
  const lines: Token[][] = [[]];
  const add = (kind: Kind, piece: string) => {
    const [first = "", ...rest] = piece.split("\n");
    if (first) lines.at(-1)?.push({ kind, text: first });
    for (const line of rest) lines.push(line ? [{ kind, text: line }] : []);
  };
  const walk = (node: Tree, kind: Kind) => {
    if (node.type === "text") add(kind, node.value ?? "");
    const names = Array.isArray(node.properties?.className) ? node.properties.className : [];
    const own = names.map((name) => KINDS[String(name)]).find((found) => found !== undefined);
    for (const child of node.children ?? []) walk(child, own ?? kind);
  };
  if (language) walk(lowlight.highlight(language, text), "plain");
  else add("plain", text);
  return lines;
}
