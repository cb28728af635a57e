/** What a file is taken for: a plan, a config whose text is sent, or a file that is imported as a job. */
export type Kind = "plan" | "config" | "file";

/** Longest text that is looked into here; what is longer is sent as it is. */
export const LONGEST_TEXT = 24 * 1024 * 1024;
/** Largest file that the server takes. */
export const LARGEST_FILE = 64 * 1024 * 1024;

/** Plan files and graphs name their format; the server says what is wrong with anything else. */
export function kindOfText(text: string): Kind {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || !("format" in value)) return "config";
    return value.format === "shardwright-graph" ? "file" : "plan";
  } catch {
    return "config";
  }
}

/** Text starts with a brace, perhaps after a byte order mark and white space; `.pt2` and ONNX files do not. */
export function looksLikeText(start: Uint8Array): boolean {
  const bom = start[0] === 0xef && start[1] === 0xbb && start[2] === 0xbf;
  const rest = start.subarray(bom ? 3 : 0);
  const first = rest.find((byte) => ![0x20, 0x09, 0x0a, 0x0d].includes(byte));
  return first === 0x7b;
}
