import { expect, it } from "vitest";
import { axisColours, textOn } from "./colour";

it("gives the known axes their hue, parts of one a family, others a spare", () => {
  const colours = axisColours(["dp", "tp0", "tp1", "zz"]);
  expect(colours).toMatchObject({ dp: "#0072B2", tp0: "#E69F00", zz: "#D55E00" });
  expect(colours["tp1"]).not.toBe(colours["tp0"]);
  expect(new Set(Object.values(colours)).size).toBe(4);
});

it.each([
  ["#0072B2", "#ffffff"],
  ["#E69F00", "#10151d"],
  ["#009E73", "#10151d"],
])("text on %s is %s", (fill, text) => expect(textOn(fill)).toBe(text));
