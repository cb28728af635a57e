import { expect, test } from "vitest";
import { kindOfText, looksLikeText } from "./kind";

test("plans, graphs and configs are told apart by the format that they name", () => {
  expect(kindOfText('{"format": "shardwright-plan", "version": 2}')).toBe("plan");
  expect(kindOfText('{"format": "something else"}')).toBe("plan");
  expect(kindOfText('{"format": "shardwright-graph", "version": 1}')).toBe("file");
  expect(kindOfText('{"architectures": ["LlamaForCausalLM"]}')).toBe("config");
  expect(kindOfText("no JSON")).toBe("config");
  expect(kindOfText("null")).toBe("config");
});

test("archives and ONNX files are no text", () => {
  const bytes = (...values: number[]) => new Uint8Array(values);
  expect(looksLikeText(bytes(0x7b, 0x22))).toBe(true);
  expect(looksLikeText(bytes(0xef, 0xbb, 0xbf, 0x0a, 0x20, 0x7b))).toBe(true);
  expect(looksLikeText(bytes(0x6e, 0x6f))).toBe(true);
  expect(looksLikeText(bytes(0x80, 0x04))).toBe(false);
  expect(looksLikeText(bytes(0x50, 0x4b, 0x03, 0x04))).toBe(false);
  expect(looksLikeText(bytes(0x08, 0x0a, 0x12, 0x07))).toBe(false);
  expect(looksLikeText(bytes())).toBe(false);
});
