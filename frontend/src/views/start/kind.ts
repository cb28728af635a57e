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

/** Text begins with a byte order mark or a plain character, an archive with PK, and an ONNX file with a byte 8. */
export function looksLikeText(start: Uint8Array): boolean {
  const [first = 0, second = 0, third = 0] = start;
  if (first === 0xef) return second === 0xbb && third === 0xbf;
  const archive = first === 0x50 && second === 0x4b;
  return !archive && (first >= 0x20 || [0x09, 0x0a, 0x0d].includes(first)) && first < 0x7f;
}
