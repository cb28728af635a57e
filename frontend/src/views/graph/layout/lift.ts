/** Lift tensors to the boxes that are visible, and cut them at the frames that they cross. */

import { at, ItemKind, type Skeleton } from "./types";

export interface Level {
  /** Index of the open group; -1 for the topmost level. */
  readonly group: number;
  readonly kinds: number[];
  /** Index of a box or group, or of the stem of a badge or port. */
  readonly refs: number[];
  /** 1 for a group. */
  readonly groups: number[];
  readonly links: { source: number; sourcePort: number; targets: number[] }[];
  /** The stem of each link. */
  readonly stems: number[];
  entries: number;
  exits: number;
}

/** For each group, whether it is visible: 0 hidden, 1 closed, 2 open. */
export function visibility(skeleton: Skeleton, open: readonly boolean[]): Uint8Array {
  const state = new Uint8Array(skeleton.groupParent.length);
  skeleton.groupParent.forEach((parent, group) => {
    if (parent < 0 || state[parent] === 2) state[group] = open[group] ? 2 : 1;
  });
  return state;
}

export class Lifting {
  /** By group plus one, for groups that are open; the topmost level comes first. */
  readonly levels: (Level | null)[];
  private readonly state: Uint8Array;
  /** The closed group that hides what is in a group; -1 if nothing does. */
  private readonly hiddenBy: Int32Array;
  private readonly depth: Int32Array;
  private readonly itemOfBox: Int32Array;
  private readonly itemOfGroup: Int32Array;

  constructor(
    private readonly skeleton: Skeleton,
    open: readonly boolean[],
  ) {
    const count = skeleton.groupParent.length;
    this.state = visibility(skeleton, open);
    this.hiddenBy = new Int32Array(count).fill(-1);
    this.depth = new Int32Array(count + 1);
    this.itemOfBox = new Int32Array(skeleton.boxParent.length).fill(-1);
    this.itemOfGroup = new Int32Array(count).fill(-1);
    this.levels = [emptyLevel(-1)];
    skeleton.groupParent.forEach((parent, group) => {
      const above = parent < 0 ? -1 : at(this.hiddenBy, parent);
      this.hiddenBy[group] = above >= 0 ? above : this.state[group] === 1 ? group : -1;
      this.depth[group + 1] = at(this.depth, parent + 1) + 1;
      this.levels.push(this.state[group] === 2 ? emptyLevel(group) : null);
    });
    this.place();
    this.run();
  }

  /** Put boxes and groups in their levels, in the order of the first operator inside. */
  private place(): void {
    const { boxParent, groupParent } = this.skeleton;
    const addGroup = (group: number) => {
      // Parents first: from the outermost group that isn't placed yet.
      const chain: number[] = [];
      for (let g = group; g >= 0 && at(this.itemOfGroup, g) < 0; g = at(groupParent, g))
        chain.push(g);
      for (let i = chain.length - 1; i >= 0; i -= 1) {
        const g = chain[i] as number;
        const level = this.levels[at(groupParent, g) + 1];
        if (level) this.itemOfGroup[g] = addItem(level, ItemKind.Box, g, 1);
      }
    };
    boxParent.forEach((parent, box) => {
      if (parent >= 0) addGroup(parent);
      const level = this.levels[parent + 1];
      if (level) this.itemOfBox[box] = addItem(level, ItemKind.Box, box, 0);
    });
    groupParent.forEach((_, group) => {
      addGroup(group);
    });
  }

  /** Return the level and item that show a box. */
  private shown(box: number): [number, number] {
    const parent = at(this.skeleton.boxParent, box);
    const closed = parent < 0 ? -1 : at(this.hiddenBy, parent);
    if (closed < 0) return [parent, at(this.itemOfBox, box)];
    return [at(this.skeleton.groupParent, closed), at(this.itemOfGroup, closed)];
  }

  private parentOf(group: number): number {
    return at(this.skeleton.groupParent, group);
  }

  private common(a: number, b: number): number {
    let [x, y] = [a, b];
    while (x !== y) {
      if (at(this.depth, x + 1) >= at(this.depth, y + 1)) x = this.parentOf(x);
      else y = this.parentOf(y);
    }
    return x;
  }

  private run(): void {
    const levelCount = this.levels.length;
    // Per level: the link that the current stem's entry port feeds, valid when the stamp is the stem's.
    const stamp = new Int32Array(levelCount).fill(-1);
    const fed = new Int32Array(levelCount);
    this.skeleton.stems.forEach((stem, index) => {
      const [home, producer] = this.shown(stem.producer);
      const readers: [number, number][] = [];
      let top = home;
      for (const reader of stem.readers) {
        const [level, item] = this.shown(reader);
        if (level === home && item === producer) continue;
        if (readers.some(([l, i]) => l === level && i === item)) continue;
        readers.push([level, item]);
        top = this.common(top, level);
      }
      if (readers.length === 0) return;

      let [source, port] = [producer, -1];
      for (let level = home; level !== top; level = this.parentOf(level)) {
        const inside = this.levels[level + 1] as Level;
        const exit = addItem(inside, ItemKind.Exit, index, 0);
        addLink(inside, source, port, [exit, -1], index);
        [source, port] = [at(this.itemOfGroup, level), inside.exits];
        inside.exits += 1;
      }

      const targets: number[] = [];
      for (const [home, reader] of readers) {
        let [item, entry] = [reader, -1];
        let level = home;
        while (level !== top) {
          const inside = this.levels[level + 1] as Level;
          if (stamp[level + 1] === index) {
            inside.links[at(fed, level + 1)]?.targets.push(item, entry);
            break;
          }
          const portItem = addItem(inside, ItemKind.Entry, index, 0);
          stamp[level + 1] = index;
          fed[level + 1] = addLink(inside, portItem, -1, [item, entry], index);
          [item, entry] = [at(this.itemOfGroup, level), inside.entries];
          inside.entries += 1;
          level = this.parentOf(level);
        }
        if (level === top) targets.push(item, entry);
      }
      const meeting = this.levels[top + 1] as Level;
      if (stem.width > 0) {
        const badge = addItem(meeting, ItemKind.Badge, index, 0);
        addLink(meeting, source, port, [badge, -1], index);
        addLink(meeting, badge, -1, targets, index);
      } else {
        addLink(meeting, source, port, targets, index);
      }
    });
  }
}

function emptyLevel(group: number): Level {
  return { group, kinds: [], refs: [], groups: [], links: [], stems: [], entries: 0, exits: 0 };
}

function addItem(level: Level, kind: number, ref: number, group: number): number {
  level.refs.push(ref);
  level.groups.push(group);
  return level.kinds.push(kind) - 1;
}

function addLink(
  level: Level,
  source: number,
  sourcePort: number,
  targets: number[],
  stem: number,
): number {
  level.stems.push(stem);
  return level.links.push({ source, sourcePort, targets }) - 1;
}
