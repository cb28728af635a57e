import { ActionIcon } from "@mantine/core";
import { type ReactNode, useEffect } from "react";
import { Icon } from "../ui/icons";
import { follow, START } from "../ui/route";
import { Brand } from "./Brand";
import classes from "./ToolPage.module.css";

/** A tool on a page of its own, without a plan; `fills` gives it the height of the window, to scroll inside. */
export function ToolPage({
  title,
  name,
  fills = false,
  dark,
  onTheme,
  children,
}: {
  title: string;
  /** What the window is called. */
  name: string;
  fills?: boolean;
  dark: boolean;
  onTheme(): void;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${name} · Shardwright`;
  }, [name]);
  return (
    <div className={classes["page"]} data-fills={fills}>
      <header className={classes["top"]}>
        <a
          href={START}
          onClick={follow}
          className={classes["home"]}
          aria-label="Shardwright, start page"
        >
          <Brand />
        </a>
        <h1>{title}</h1>
        <ActionIcon aria-label={dark ? "Light theme" : "Dark theme"} onClick={onTheme}>
          <Icon name={dark ? "sun" : "moon"} />
        </ActionIcon>
      </header>
      <main className={classes["main"]}>{children}</main>
    </div>
  );
}
