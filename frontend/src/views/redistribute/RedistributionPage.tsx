import { ActionIcon } from "@mantine/core";
import { useEffect, useState } from "react";
import { fieldsOfQuery } from "../../document/redistribution";
import { Icon } from "../../ui/icons";
import { follow, redistributionPath, replaceWith, START } from "../../ui/route";
import { Brand } from "../Brand";
import classes from "./Redistribution.module.css";
import { RedistributionTool } from "./RedistributionTool";
import { useRedistribution } from "./useRedistribution";

/** The tool on a page of its own, without a plan; its address holds what was asked. */
export default function RedistributionPage({ dark, onTheme }: { dark: boolean; onTheme(): void }) {
  const [first] = useState(() => fieldsOfQuery(window.location.search));
  const form = useRedistribution(first, undefined, (sent) => replaceWith(redistributionPath(sent)));
  useEffect(() => {
    document.title = "Redistribution · Shardwright";
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
        <h1>From one layout to another</h1>
        <ActionIcon aria-label={dark ? "Light theme" : "Dark theme"} onClick={onTheme}>
          <Icon name={dark ? "sun" : "moon"} />
        </ActionIcon>
      </header>
      <main className={classes["main"]}>
        <RedistributionTool form={form} />
      </main>
    </div>
  );
}
