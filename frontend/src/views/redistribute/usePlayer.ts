import { useCallback, useEffect, useState } from "react";

const PAUSE_MS = 1300;

export interface Player {
  /** 0 is the start, n what is after the nth step. */
  at: number;
  playing: boolean;
  go(at: number): void;
  toggle(): void;
}

/** Walks over `count` states; another `key` starts anew. */
export function usePlayer(count: number, key: unknown): Player {
  const [at, setAt] = useState(0);
  const [playing, setPlaying] = useState(false);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key is what this is about.
  useEffect(() => {
    setAt(0);
    setPlaying(false);
  }, [key]);
  const last = count - 1;
  useEffect(() => {
    if (!playing) return;
    if (at >= last) {
      setPlaying(false);
      return;
    }
    const timer = setTimeout(() => setAt(at + 1), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [playing, at, last]);

  const go = useCallback(
    (to: number) => {
      setPlaying(false);
      setAt(Math.max(0, Math.min(last, to)));
    },
    [last],
  );
  const toggle = useCallback(() => {
    if (!playing && at >= last) setAt(0);
    setPlaying(!playing);
  }, [playing, at, last]);
  return { at: Math.min(at, Math.max(0, last)), playing, go, toggle };
}
