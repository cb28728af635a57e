/** Ask the layout's worker; a newer request supersedes one that is still running. */

import { LayoutEngine } from "./layout/engine";
import type { Geometry, Skeleton } from "./layout/types";
import type { LayoutAnswer, LayoutRequest } from "./layout.worker";

export interface LayoutWorker {
  onmessage: ((event: MessageEvent<LayoutAnswer>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  postMessage(request: LayoutRequest): void;
  terminate(): void;
}

type Done = (geometry: Geometry, milliseconds: number) => void;

interface Wanted {
  readonly skeleton: Skeleton;
  readonly open: readonly boolean[];
  readonly done: Done;
}

export function startWorker(): LayoutWorker | null {
  if (typeof Worker === "undefined") return null;
  return new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
}

export class LayoutClient {
  private id = 0;
  private running: Wanted | null = null;
  private next: Wanted | null = null;
  private sent: Skeleton | null = null;
  private readonly engine = new LayoutEngine();

  /** Without a worker, where there is none to be had, the layout runs at once. */
  constructor(private worker: LayoutWorker | null) {
    if (!worker) return;
    worker.onmessage = (event) => this.answer(event.data);
    worker.onerror = () => this.giveUp();
  }

  request(skeleton: Skeleton, open: readonly boolean[], done: Done): void {
    const wanted = { skeleton, open, done };
    if (!this.worker) {
      const start = performance.now();
      const geometry = this.engine.layout(skeleton, open);
      done(geometry, performance.now() - start);
    } else if (this.running) {
      this.next = wanted;
    } else {
      this.send(wanted);
    }
  }

  destroy(): void {
    this.worker?.terminate();
    this.running = null;
    this.next = null;
  }

  /** A page that may not start workers still shows its graph. */
  private giveUp(): void {
    const wanted = this.next ?? this.running;
    this.destroy();
    this.worker = null;
    if (wanted) this.request(wanted.skeleton, wanted.open, wanted.done);
  }

  private send(wanted: Wanted): void {
    this.id += 1;
    this.running = wanted;
    const { skeleton, open } = wanted;
    // The skeleton travels once; opening a group sends a list of flags.
    const request =
      skeleton === this.sent ? { id: this.id, open } : { id: this.id, skeleton, open };
    this.sent = skeleton;
    this.worker?.postMessage(request);
  }

  private answer(answer: LayoutAnswer): void {
    const finished = this.running;
    this.running = null;
    if (!finished || answer.id !== this.id) return;
    if (this.next) {
      const wanted = this.next;
      this.next = null;
      this.send(wanted);
      return;
    }
    finished.done(answer.geometry, answer.milliseconds);
  }
}
