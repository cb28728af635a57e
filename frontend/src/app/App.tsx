import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import type { PlanState } from "../api/types";
import { StartPage } from "../views/start/StartPage";
import { PlanPage } from "./PlanPage";
import { goToPlan, usePlanRoute } from "./route";

export function App() {
  const id = usePlanRoute();
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme("light") === "dark";
  const toggleTheme = () => setColorScheme(dark ? "light" : "dark");
  // A plan that was just created is here already: no need to fetch it again.
  const created = useRef<PlanState | null>(null);

  useEffect(() => {
    if (id === null) document.title = "Shardwright";
  }, [id]);

  if (id === null) {
    return (
      <StartPage
        dark={dark}
        onTheme={toggleTheme}
        onOpen={(plan) => {
          created.current = plan;
          goToPlan(plan.id);
        }}
      />
    );
  }
  return (
    <PlanPage
      key={id}
      id={id}
      created={created.current?.id === id ? created.current : null}
      dark={dark}
      onTheme={toggleTheme}
    />
  );
}
