// Enough of Python, shell and JSON to tell words apart; not a parser.

export interface Token {
  kind: "plain" | "keyword" | "string" | "comment" | "number";
  text: string;
}

const KEYWORDS =
  "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield None True False self true false null fi then do done export set exec";
const PATTERN = new RegExp(
  [
    /(?<string>[rbf]{0,2}(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))/
      .source,
    /(?<comment>#[^\n]*)/.source,
    `(?<keyword>\\b(?:${KEYWORDS.replaceAll(" ", "|")})\\b)`,
    /(?<number>\b\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\b)/.source,
  ].join("|"),
  "g",
);

const LANGUAGES = /\.(py|json|sh|toml)$/;

export function highlight(path: string, text: string): Token[] {
  if (!LANGUAGES.test(path)) return [{ kind: "plain", text }];
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(PATTERN)) {
    if (match.index > end) tokens.push({ kind: "plain", text: text.slice(end, match.index) });
    const groups = match.groups ?? {};
    const kind = (["string", "comment", "keyword", "number"] as const).find((name) => groups[name]);
    tokens.push({ kind: kind ?? "plain", text: match[0] });
    end = match.index + match[0].length;
  }
  if (end < text.length) tokens.push({ kind: "plain", text: text.slice(end) });
  return tokens;
}
