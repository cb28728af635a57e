import { useCallback, useEffect, useRef, useState } from "react";
import { api, problemOf } from "../../api/client";
import type { Problem, RedistributionAnswer } from "../../api/types";
import { type Fields, fieldsOf, requestOf } from "../../document/redistribution";

export interface Redistribution {
  fields: Fields;
  answer: RedistributionAnswer | null;
  /** What was refused, with the texts that were sent. */
  refused: { problem: Problem; sent: Fields } | null;
  busy: boolean;
  set(change: Partial<Fields>): void;
  /** Asks for what is typed, with a last change. */
  submit(change?: Partial<Fields>): void;
}

/**
 * A form and the last answer to it; a refusal loses neither.
 *
 * It starts with what `load` gives, else by asking for what the fields say.
 */
export function useRedistribution(
  first: Fields,
  load?: () => Promise<RedistributionAnswer>,
  onAnswer?: (fields: Fields) => void,
): Redistribution {
  const [fields, setFields] = useState(first);
  const [answer, setAnswer] = useState<RedistributionAnswer | null>(null);
  const [refused, setRefused] = useState<Redistribution["refused"]>(null);
  const [busy, setBusy] = useState(false);
  const turn = useRef(0);
  const told = useRef(onAnswer);
  told.current = onAnswer;

  const ask = useCallback(async (sent: Fields, load?: () => Promise<RedistributionAnswer>) => {
    turn.current += 1;
    const mine = turn.current;
    setBusy(true);
    try {
      const found = await (load ? load() : api.redistribute(requestOf(sent)));
      if (mine !== turn.current) return;
      setAnswer(found);
      setRefused(null);
      if (load) setFields(fieldsOf(found));
      else told.current?.(sent);
    } catch (error) {
      if (mine === turn.current) setRefused({ problem: problemOf(error), sent });
    }
    if (mine === turn.current) setBusy(false);
  }, []);

  const begin = useRef({ first, load });
  useEffect(() => {
    void ask(begin.current.first, begin.current.load);
    return () => {
      turn.current += 1;
    };
  }, [ask]);

  return {
    fields,
    answer,
    refused,
    busy,
    set: (change) => setFields((before) => ({ ...before, ...change })),
    submit: (change) => {
      setFields({ ...fields, ...change });
      void ask({ ...fields, ...change });
    },
  };
}
