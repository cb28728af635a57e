import { Button, Menu } from "@mantine/core";
import { useState } from "react";
import { api } from "../../api/client";
import type { Figure } from "../../api/types";
import { Icon } from "../../ui/icons";
import { look } from "./Plot";

const [WIDTH, HEIGHT] = [1600, 800];

/** The picture of the pipeline as a file, and its order and times for other tools. */
export function TakePipeline({
  id,
  figure,
  dark,
  name,
}: {
  id: string;
  figure: Figure;
  dark: boolean;
  name: string;
}) {
  const [failed, setFailed] = useState(false);
  async function picture(format: "png" | "svg") {
    try {
      const { default: plotly } = await import("plotly.js-basic-dist-min");
      const layout = {
        ...figure.layout,
        ...look(figure, dark),
        paper_bgcolor: dark ? "#141a22" : "#fff",
      };
      const address = await plotly.toImage(
        { data: figure.data, layout },
        { format, width: WIDTH, height: HEIGHT },
      );
      const link = document.createElement("a");
      link.href = address;
      link.download = `${name}.${format}`;
      link.click();
      setFailed(false);
    } catch {
      setFailed(true);
    }
  }
  return (
    <>
      {failed && <span role="alert">The picture can't be made.</span>}
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <Button variant="default" leftSection={<Icon name="download" />}>
            Take away
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => picture("svg")}>Picture, SVG</Menu.Item>
          <Menu.Item onClick={() => picture("png")}>Picture, PNG</Menu.Item>
          <Menu.Item component="a" href={api.pipelineAddress(id, "page")}>
            Page that needs nothing else, HTML
          </Menu.Item>
          <Menu.Item component="a" href={api.pipelineAddress(id, "trace")}>
            Times for Perfetto
          </Menu.Item>
          <Menu.Item component="a" href={api.pipelineAddress(id, "schedule.csv")}>
            Order for PyTorch, CSV
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </>
  );
}
