import { describe, expect, it } from "vitest";
import { FIRST, queryOf, requestOf, wantedOf } from "./schedules";

describe("the address of a pipeline", () => {
  it("holds what differs from the beginning and gives it back", () => {
    const wanted = { ...FIRST, name: "zb-v", ranks: 16, send: 0.25, against: "" };
    expect(wantedOf(`?${queryOf(wanted)}`)).toEqual(wanted);
    expect(queryOf(FIRST)).toBe("");
  });

  it("takes nothing that is no number for one", () => {
    expect(wantedOf("?ranks=many&microbatches=&nobody=3")).toEqual(FIRST);
  });

  it("asks for no second schedule where none is chosen", () => {
    expect(requestOf({ ...FIRST, against: "" })).not.toHaveProperty("against");
    expect(requestOf(FIRST).against).toBe("zb-h1");
  });
});
