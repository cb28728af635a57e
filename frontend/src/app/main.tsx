import "@fontsource-variable/inter";
import "@mantine/core/styles.css";
import "@mantine/spotlight/styles.css";
import "../ui/global.css";
import { MantineProvider } from "@mantine/core";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { cssVariables, theme } from "../ui/theme";
import { App } from "./App";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={cssVariables} defaultColorScheme="auto">
      <App />
    </MantineProvider>
  </StrictMode>,
);
