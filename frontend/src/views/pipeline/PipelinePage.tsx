import { useState } from "react";
import { wantedOf } from "../../document/schedules";
import { pipelinePath, replaceWith } from "../../ui/route";
import { ToolPage } from "../ToolPage";
import { PipelineTool } from "./PipelineTool";
import { useSchedules } from "./useSchedules";

/** Pipeline schedules without a plan; the address holds what was asked. */
export default function PipelinePage({ dark, onTheme }: { dark: boolean; onTheme(): void }) {
  const [first] = useState(() => wantedOf(window.location.search));
  const schedules = useSchedules(first, (wanted) => replaceWith(pipelinePath(wanted)));
  return (
    <ToolPage title="Pipeline schedules" name="Pipeline" dark={dark} onTheme={onTheme}>
      <PipelineTool schedules={schedules} dark={dark} />
    </ToolPage>
  );
}
