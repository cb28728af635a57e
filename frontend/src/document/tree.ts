// The outline of a plan's view: groups and operators as one tree, and ways through it.
import type { GroupView, NodeView, PlanView } from "../api/types";

export interface TreeItem {
  id: string;
  kind: "group" | "op";
  label: string;
  /** Id of the group around it; empty at the top. */
  parent: string;
  depth: number;
  children: string[];
  /** How many layers it stands for, where that begins; 1 elsewhere. */
  times: number;
  group?: GroupView;
  node?: NodeView;
}

export interface Tree {
  items: ReadonlyMap<string, TreeItem>;
  roots: readonly string[];
}

export function buildTree(view: PlanView): Tree {
  const items = new Map<string, TreeItem>();
  const roots: string[] = [];
  const add = (item: Omit<TreeItem, "depth" | "children">) => {
    const around = items.get(item.parent);
    items.set(item.id, { ...item, depth: around ? around.depth + 1 : 0, children: [] });
    (around?.children ?? roots).push(item.id);
  };
  // Groups come parents first. Where a group begins among its siblings is told by its first operator.
  const first = new Map<string, number>();
  const parents = new Map(view.groups.map((group) => [group.id, group.parent]));
  view.nodes.forEach((node, position) => {
    let group: string | undefined = node.group;
    while (group && !first.has(group)) {
      first.set(group, position);
      group = parents.get(group);
    }
  });
  for (const group of view.groups) {
    const around = items.get(group.parent);
    const outside = around?.group?.layers ?? 1;
    add({
      id: group.id,
      kind: "group",
      label: group.label,
      parent: group.parent,
      times: group.layers > outside ? group.layers : 1,
      group,
    });
  }
  for (const node of view.nodes) {
    add({ id: node.id, kind: "op", label: node.label, parent: node.group, times: 1, node });
  }
  const position = new Map(view.nodes.map((node, index) => [node.id, index]));
  const order = (id: string) => position.get(id) ?? first.get(id) ?? 0;
  const before = sequence(view, items);
  for (const children of [roots, ...[...items.values()].map((item) => item.children)]) {
    children.sort((a, b) => order(a) - order(b));
    children.splice(0, children.length, ...inOrder(children, before));
  }
  return { items, roots };
}

/** For every item, its siblings that make what it reads. */
function sequence(view: PlanView, items: ReadonlyMap<string, TreeItem>): Map<string, Set<string>> {
  const before = new Map<string, Set<string>>();
  const chain = (id: string) => {
    const path: string[] = [];
    for (let item = items.get(id); item; item = items.get(item.parent)) path.unshift(item.id);
    return path;
  };
  for (const edge of view.edges) {
    // What goes from layer to layer would put a layer's end before its beginning.
    if (!edge.producer || edge.kind === "carry") continue;
    const from = chain(edge.producer);
    for (const reader of edge.readers) {
      const to = chain(reader);
      const fork = from.findIndex((id, depth) => id !== to[depth]);
      const [maker, user] = [from[fork], to[fork]];
      if (maker && user) before.set(user, (before.get(user) ?? new Set()).add(maker));
    }
  }
  return before;
}

/** Keeps the order but puts makers before what reads them; a circle is cut where it is met. */
function inOrder(
  ids: readonly string[],
  before: ReadonlyMap<string, ReadonlySet<string>>,
): string[] {
  const sorted = new Set<string>();
  const begun = new Set<string>();
  const here = new Set(ids);
  for (const start of ids) {
    const stack = [start];
    for (let id = stack.at(-1); id !== undefined; id = stack.at(-1)) {
      begun.add(id);
      const makers = [...(before.get(id) ?? [])].filter((maker) => here.has(maker));
      const missing = makers.find((maker) => !begun.has(maker));
      if (missing !== undefined) {
        stack.push(missing);
      } else {
        sorted.add(id);
        stack.pop();
      }
    }
  }
  return [...sorted];
}

/** The axes that shard any result of an operator, in the order of its cells. */
export function axesOf(node: NodeView): string[] {
  const axes = node.results.flatMap((result) => [
    ...result.cells.flatMap((cell) => cell.axes),
    ...result.partial,
  ]);
  return [...new Set(axes)];
}

function matches(item: TreeItem, words: readonly string[]): boolean {
  const node = item.node;
  const text = node
    ? `${node.name} ${node.op} ${axesOf(node).join(" ")}`
    : `${item.group?.path} ${item.group?.class_name}`;
  const lower = text.toLowerCase();
  return words.every((word) => lower.includes(word));
}

/** Ids in the order of rows on screen: with a filter, what matches and what is around it. */
export function visibleRows(tree: Tree, open: ReadonlySet<string>, filter: string): string[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = new Set<string>();
  if (words.length > 0) {
    for (const item of tree.items.values()) {
      if (!matches(item, words)) continue;
      for (const id of pathTo(tree, item.id)) kept.add(id);
    }
  }
  const rows: string[] = [];
  const stack = [...tree.roots].reverse();
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    const item = tree.items.get(id);
    if (!item || (words.length > 0 && !kept.has(id))) continue;
    rows.push(id);
    if (open.has(id) || words.length > 0) stack.push(...[...item.children].reverse());
  }
  return rows;
}

/** The groups around an item from the outside in, and the item itself. */
export function pathTo(tree: Tree, id: string): string[] {
  const path: string[] = [];
  for (let item = tree.items.get(id); item; item = tree.items.get(item.parent))
    path.unshift(item.id);
  return path;
}

/** Along the edges: who reads what `id` makes, or who makes what it reads. */
export function follow(view: PlanView, id: string, way: "down" | "up"): string | null {
  if (way === "down") {
    const edge = view.edges.find((candidate) => candidate.producer === id);
    return edge?.readers[0] ?? null;
  }
  const edge = view.edges.find(
    (candidate) => candidate.producer !== "" && candidate.readers.includes(id),
  );
  return edge?.producer ?? null;
}

/** The neighbour among the children of the same group. */
export function sibling(tree: Tree, id: string, step: 1 | -1): string | null {
  const item = tree.items.get(id);
  if (!item) return null;
  const all = tree.items.get(item.parent)?.children ?? tree.roots;
  return all[all.indexOf(id) + step] ?? null;
}

/** Groups that are open at first: modules; layers and composite operators are closed, as on the canvas. */
export function openAtFirst(tree: Tree): string[] {
  const runs = [...tree.items.values()].filter((item) => item.group && item.group.total > 0);
  const lists = new Set(runs.map((item) => item.parent).filter((id) => id !== ""));
  return [...tree.items.values()]
    .filter((item) => item.kind === "group" && !item.id.endsWith("#parts") && item.depth < 4)
    .filter((item) => item.group?.total === 0 && !lists.has(item.parent))
    .map((item) => item.id);
}

/** The outline after the canvas opened and closed groups; what only one of them shows stays as it is. */
export function followCanvas(
  open: ReadonlySet<string>,
  before: readonly string[],
  now: readonly string[],
): ReadonlySet<string> {
  const [were, are] = [new Set(before), new Set(now)];
  const next = new Set(open);
  for (const id of were) if (!are.has(id)) next.delete(id);
  for (const id of are) if (!were.has(id)) next.add(id);
  return next;
}

export interface TreeMove {
  select?: string;
  toggle?: string;
}

/** What a key does in the tree (WAI-ARIA's pattern); null if it does nothing there. */
export function treeMove(
  tree: Tree,
  rows: readonly string[],
  isOpen: (id: string) => boolean,
  id: string,
  key: string,
): TreeMove | null {
  const item = tree.items.get(id);
  if (!item) return null;
  const index = rows.indexOf(id);
  const select = (to: string | undefined): TreeMove => (to ? { select: to } : {});
  const group = item.kind === "group";
  switch (key) {
    case "ArrowDown":
      return select(rows[index + 1]);
    case "ArrowUp":
      return select(rows[index - 1]);
    case "Home":
      return select(rows[0]);
    case "End":
      return select(rows.at(-1));
    case "ArrowRight":
      if (!group) return {};
      return isOpen(id) ? select(item.children[0]) : { toggle: id };
    case "ArrowLeft":
      return group && isOpen(id) ? { toggle: id } : select(item.parent);
    case "Enter":
      return group ? { select: id, toggle: id } : { select: id };
    case " ":
      return { select: id };
    default:
      return null;
  }
}

/** After a run of layers was cut: open in the new run around `selected` what was open in the old one. */
export function carryOpen(
  before: Tree,
  after: Tree,
  open: ReadonlySet<string>,
  selected: string | null,
): ReadonlySet<string> {
  const fresh = [...after.items.values()].filter(
    (item) => item.kind === "group" && !before.items.has(item.id),
  );
  if (fresh.length === 0 || selected === null) return open;
  const paths = new Set([...open].map((id) => before.items.get(id)?.group?.path));
  const run = pathTo(after, selected).find((id) => !before.items.has(id));
  const mine = fresh.filter(
    ({ id, group }) =>
      paths.has(group?.path) && run !== undefined && pathTo(after, id).includes(run),
  );
  return new Set([...open, ...mine.map(({ id }) => id)]);
}
