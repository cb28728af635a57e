import { expect, it } from "vitest";
import {
  formatBytes,
  formatChange,
  formatCount,
  formatMemory,
  formatSeconds,
  formatValue,
} from "./units";

it.each([
  [formatBytes(0), "0 B"],
  [formatBytes(8 * 2 ** 20), "8.0 MiB"],
  [formatMemory(80e9), "80.0 GB"],
  [formatMemory(704.6e6), "704.6 MB"],
  [formatSeconds(0.2817), "281.70 ms"],
  [formatSeconds(-3e-18), "0 s"],
  [formatSeconds(1.3e-4), "130.0 µs"],
  [formatCount(8030261248), "8.03 B"],
  [formatChange(100, 102), "+2.0%"],
  [formatChange(100, 98), "−2.0%"],
  [formatChange(100, 100), ""],
  [formatValue(67e12, "FLOP/s"), "67 TFLOP/s"],
  [formatValue(3, ""), "3"],
])("%s reads %s", (found, wanted) => expect(found).toBe(wanted));
