import { SegmentedControl } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "../api/client";
import { commandsOf, type Shell } from "../commands/commands";
import { sharedBuckets } from "../document/buckets";
import type { Part } from "../document/code";
import type { Reach } from "../document/layers";
import { buildTree, carryOpen, followCanvas, openAtFirst, pathTo } from "../document/tree";
import { Inspector } from "../inspector/Inspector";
import { type Look, LookContext } from "../ui/LookContext";
import { useColours, useDocument, usePlan, useRegistry } from "../ui/PlanContext";
import { Resizer } from "../ui/Resizer";
import { goToPlan, goToStart } from "../ui/route";
import { Banner } from "../views/designer/Banner";
import { BottomBar } from "../views/designer/BottomBar";
import { Outline } from "../views/designer/Outline";
import { TopBar } from "../views/designer/TopBar";
import { GraphCanvas, type GraphHandle } from "../views/graph/GraphCanvas";
import { Panels } from "../views/panels/Panels";
import classes from "./Designer.module.css";
import { FindPalette, openFind } from "./FindPalette";
import { type Looked, LookModal } from "./LookModal";
import { useAxisToggle } from "./useAxisToggle";
import { useInView } from "./useInView";
import { useKeys } from "./useKeys";

const SettingsModal = lazy(() => import("../views/designer/SettingsModal"));
const HelpModal = lazy(() => import("./HelpModal"));

type Direction = "forward" | "backward";

export function Designer({ dark, onTheme }: { dark: boolean; onTheme(): void }) {
  const document = useDocument();
  const { presets } = useRegistry();
  const plan = usePlan((state) => state.plan);
  const view = usePlan((state) => state.view);
  const selected = usePlan((state) => state.selected);
  const edge = usePlan((state) => state.edge);
  const marked = usePlan((state) => state.marked);
  const pending = usePlan((state) => state.slow);
  const colours = useColours();
  const tree = useMemo(() => buildTree(view), [view]);
  const canvas = useRef<GraphHandle>(null);
  const frame = useRef<HTMLElement>(null);
  const filter = useRef<HTMLInputElement>(null);
  const reach = useRef<Reach>({ kind: "all" });
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(openAtFirst(tree)));
  const [direction, setDirection] = useState<Direction>("forward");
  const [tab, setTab] = useState<string | null>(null);
  const [settings, setSettings] = useState(false);
  const [help, setHelp] = useState(false);
  const [looked, setLooked] = useState<Looked | null>(null);
  const [shown, setShown] = useState<Part | null>(null);
  const [left, setLeft] = useLocalStorage({ key: "shardwright-outline", defaultValue: 236 });
  const [right, setRight] = useLocalStorage({ key: "shardwright-inspector", defaultValue: 320 });
  const [below, setBelow] = useLocalStorage({ key: "shardwright-panel", defaultValue: 240 });
  const toggleAxis = useAxisToggle(reach);

  const drawn = useRef(tree);
  useEffect(() => {
    const before = drawn.current;
    drawn.current = tree;
    setOpen((open) => carryOpen(before, tree, open, document.getState().selected));
  }, [tree, document]);

  useEffect(() => {
    window.document.title = `${plan.name} · Shardwright`;
  }, [plan.name]);

  const toggleOpen = useCallback((id: string) => {
    setOpen((before) => {
      const next = new Set(before);
      if (next.delete(id)) canvas.current?.close(id);
      else {
        next.add(id);
        canvas.current?.open(id);
      }
      return next;
    });
  }, []);
  const reveal = useCallback(
    (id: string) => setOpen((before) => new Set([...before, ...pathTo(tree, id).slice(0, -1)])),
    [tree],
  );

  const onCanvas = useRef<readonly string[] | null>(null);
  const follow = useCallback((now: readonly string[]) => {
    const before = onCanvas.current;
    onCanvas.current = now;
    if (before) setOpen((open) => followCanvas(open, before, now));
  }, []);

  const look = useMemo(
    (): Look => ({
      redistribution: (edge, badge) => setLooked({ kind: "collective", edge, badge }),
      buckets: (positions) => setLooked({ kind: "buckets", positions }),
      slices: (of) => setLooked({ kind: "slices", of }),
      code: (part) => {
        if (part.kind === "edge") document.selectEdge(part.id);
        setShown({ ...part });
        setTab("code");
      },
    }),
    [document],
  );

  const shell: Shell = {
    tree: () => tree,
    presets,
    fit: () => canvas.current?.fit(),
    actualSize: () => canvas.current?.zoomTo(1),
    toggleOpen: (id) => tree.items.get(id)?.kind === "group" && toggleOpen(id),
    toggleAxis,
    focusFilter: () => filter.current?.focus(),
    find: openFind,
    help: () => setHelp(true),
    toggleTheme: onTheme,
    setDirection,
    openPanel: setTab,
    openSettings: () => setSettings(true),
    openTraining: () => {
      document.select(null);
      // When the inspector shows the plan.
      requestAnimationFrame(() => window.document.getElementById("gradients")?.focus());
    },
    openRedistribution: () => setLooked({ kind: "free" }),
    copyPlan: async () => goToPlan((await api.copy(plan.id)).id),
    downloadCode: async () => {
      // A plan that can't be written as code says so in its tab, in place of a download that fails.
      const forms = await api.forms(plan.id).catch(() => []);
      if (forms[0]?.problem === null) download(api.zipAddress(plan.id, forms[0].name));
      else setTab("code");
    },
    showCode: () => {
      const { edge: id, selected: node } = document.getState();
      if (id) look.code({ kind: "edge", id });
      else if (node) look.code({ kind: "node", id: node });
    },
    downloadFile: () => download(api.fileAddress(plan.id)),
    goStart: goToStart,
  };
  const commands = commandsOf(document, shell);
  useKeys(commands);
  useInView(canvas, frame, selected, tab);

  return (
    <div className={classes["designer"]}>
      <div>
        <TopBar
          dark={dark}
          onTheme={onTheme}
          onFind={openFind}
          onSettings={() => setSettings(true)}
          onRedistribution={shell.openRedistribution}
          onCode={() => setTab("code")}
          onDownload={shell.downloadCode}
          onPicture={(kind) => savePicture(canvas.current, kind, plan.name)}
        />
      </div>
      <div
        className={classes["middle"]}
        style={{ gridTemplateColumns: `${left}px 1px minmax(0, 1fr) 1px ${right}px` }}
      >
        <Outline
          tree={tree}
          open={open}
          onToggle={toggleOpen}
          onReveal={reveal}
          filterRef={filter}
        />
        <Resizer
          label="Width of the outline"
          side="left"
          size={left}
          min={160}
          max={480}
          onResize={setLeft}
        />
        <main ref={frame} className={classes["canvas"]} aria-label="Graph">
          <h1 className="visually-hidden">{plan.name}</h1>
          <GraphCanvas
            ref={canvas}
            view={view}
            axisColours={colours}
            selected={selected}
            edge={edge}
            marked={marked}
            direction={direction}
            dark={dark}
            pending={pending}
            onSelect={document.select}
            onMark={document.mark}
            onEdge={document.selectEdge}
            onOpenChange={follow}
            onBadge={(badge) => {
              for (const edge of view.edges) {
                const position = (edge.badges as readonly unknown[]).indexOf(badge);
                const shared = sharedBuckets(view.buckets, edge.badges[position]);
                if (position >= 0 && shared.length > 0) look.buckets(shared);
                else if (position >= 0) look.redistribution(edge.id, position);
              }
            }}
          />
          <Banner onOpen={goToPlan} />
          <SegmentedControl
            className={classes["direction"]}
            aria-label="Collectives shown"
            value={direction}
            onChange={(value) => setDirection(value as Direction)}
            data={[
              { value: "forward", label: "Forward" },
              { value: "backward", label: "Backward" },
            ]}
          />
        </main>
        <Resizer
          label="Width of the inspector"
          side="right"
          size={right}
          min={260}
          max={620}
          onResize={setRight}
        />
        <LookContext value={look}>
          <Inspector
            onReach={(next) => {
              reach.current = next;
            }}
          />
        </LookContext>
      </div>
      <div>
        <BottomBar />
        {tab && (
          <Resizer
            label="Height of the panel"
            side="below"
            size={below}
            min={120}
            max={560}
            onResize={setBelow}
          />
        )}
        <Panels tab={tab} height={below} dark={dark} shown={shown} onTab={setTab} />
      </div>
      <Suspense>
        {settings && <SettingsModal onClose={() => setSettings(false)} />}
        {looked && <LookModal looked={looked} onClose={() => setLooked(null)} />}
        {help && <HelpModal commands={commands} onClose={() => setHelp(false)} />}
      </Suspense>
      <FindPalette commands={commands} onNode={document.select} />
    </div>
  );
}

function download(address: string, name = ""): void {
  const link = window.document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

function savePicture(canvas: GraphHandle | null, kind: "png" | "svg", name: string): void {
  if (!canvas) return;
  const file = `${name}.${kind}`;
  if (kind === "png") {
    download(canvas.png(), file);
    return;
  }
  const address = URL.createObjectURL(new Blob([canvas.svg()], { type: "image/svg+xml" }));
  download(address, file);
  URL.revokeObjectURL(address);
}
