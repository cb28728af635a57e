import { Modal } from "@mantine/core";
import type { RedistributionAnswer } from "../../api/types";
import type { Fields } from "../../document/redistribution";
import { follow, redistributionPath } from "../../ui/route";
import { useReturnFocus } from "../../ui/useReturnFocus";
import classes from "./Redistribution.module.css";
import { RedistributionTool } from "./RedistributionTool";
import { useRedistribution } from "./useRedistribution";

/** The tool over the designer: with what the plan does, or with a layout of one's own on the plan's mesh. */
export default function RedistributionModal({
  title,
  first,
  load,
  onClose,
}: {
  title: string;
  first: Fields;
  load?: (() => Promise<RedistributionAnswer>) | undefined;
  onClose(): void;
}) {
  const form = useRedistribution(first, load);
  useReturnFocus();
  return (
    <Modal
      opened
      onClose={onClose}
      size="min(1320px, 94vw)"
      title={
        <span className={classes["dialogTitle"]}>
          {title}
          <a className="link" href={redistributionPath(form.fields)} onClick={follow}>
            Open as a page
          </a>
        </span>
      }
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={classes["dialog"]}>
        <RedistributionTool form={form} />
      </div>
    </Modal>
  );
}
