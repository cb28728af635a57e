import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { lazy, Suspense, useEffect, useRef } from "react";
import type { PlanState } from "../api/types";
import { goToPlan, useRoute } from "../ui/route";
import { Loading } from "../ui/states";

// Whoever opens a plan by its address does not wait for the start page, nor the other way round.
const StartPage = lazy(() => import("../views/start/StartPage"));
const PlanPage = lazy(() => import("./PlanPage"));
const RedistributionPage = lazy(() => import("../views/redistribute/RedistributionPage"));
const PipelinePage = lazy(() => import("../views/pipeline/PipelinePage"));

export function App() {
  const route = useRoute();
  const id = route.page === "plan" ? route.id : null;
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme("light") === "dark";
  const toggleTheme = () => setColorScheme(dark ? "light" : "dark");
  // A plan that was just created is here already: no need to fetch it again. Whoever comes back later gets it as it is then.
  const created = useRef<PlanState | null>(null);
  useEffect(() => {
    if (created.current?.id !== id) created.current = null;
  }, [id]);

  useEffect(() => {
    if (route.page === "start") document.title = "Shardwright";
  }, [route.page]);

  return (
    <Suspense fallback={<Loading label="Loading the page" />}>
      {route.page === "redistribute" ? (
        <RedistributionPage dark={dark} onTheme={toggleTheme} />
      ) : route.page === "pipeline" ? (
        <PipelinePage dark={dark} onTheme={toggleTheme} />
      ) : id === null ? (
        <StartPage
          dark={dark}
          onTheme={toggleTheme}
          onOpen={(plan) => {
            created.current = plan;
            goToPlan(plan.id);
          }}
        />
      ) : (
        <PlanPage
          key={id}
          id={id}
          created={created.current?.id === id ? created.current : null}
          dark={dark}
          onTheme={toggleTheme}
        />
      )}
    </Suspense>
  );
}
