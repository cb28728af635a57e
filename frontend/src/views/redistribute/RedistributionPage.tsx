import { useState } from "react";
import { fieldsOfQuery } from "../../document/redistribution";
import { redistributionPath, replaceWith } from "../../ui/route";
import { ToolPage } from "../ToolPage";
import { RedistributionTool } from "./RedistributionTool";
import { useRedistribution } from "./useRedistribution";

/** The redistribution of two layouts without a plan; the address holds what was asked. */
export default function RedistributionPage({ dark, onTheme }: { dark: boolean; onTheme(): void }) {
  const [first] = useState(() => fieldsOfQuery(window.location.search));
  const form = useRedistribution(first, undefined, (sent) => replaceWith(redistributionPath(sent)));
  return (
    <ToolPage
      title="From one layout to another"
      name="Redistribution"
      fills
      dark={dark}
      onTheme={onTheme}
    >
      <RedistributionTool form={form} />
    </ToolPage>
  );
}
