import { ActionIcon } from "@mantine/core";
import { useEffect, useState } from "react";
import { wantedOf } from "../../document/schedules";
import { Icon } from "../../ui/icons";
import { follow, pipelinePath, replaceWith, START } from "../../ui/route";
import { Brand } from "../Brand";
import classes from "./Pipeline.module.css";
import { PipelineTool } from "./PipelineTool";
import { useSchedules } from "./useSchedules";

/** Pipeline schedules on a page of their own, without a plan; its address holds what was asked. */
export default function PipelinePage({ dark, onTheme }: { dark: boolean; onTheme(): void }) {
  const [first] = useState(() => wantedOf(window.location.search));
  const schedules = useSchedules(first, (wanted) => replaceWith(pipelinePath(wanted)));
  useEffect(() => {
    document.title = "Pipeline · Shardwright";
  }, []);
  return (
    <div className={classes["page"]}>
      <header className={classes["top"]}>
        <a
          href={START}
          onClick={follow}
          className={classes["home"]}
          aria-label="Shardwright, start page"
        >
          <Brand />
        </a>
        <h1>Pipeline schedules</h1>
        <ActionIcon aria-label={dark ? "Light theme" : "Dark theme"} onClick={onTheme}>
          <Icon name={dark ? "sun" : "moon"} />
        </ActionIcon>
      </header>
      <main className={classes["main"]}>
        <PipelineTool schedules={schedules} dark={dark} />
      </main>
    </div>
  );
}
