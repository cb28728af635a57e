import { Kbd, Modal } from "@mantine/core";
import type { Command } from "../commands/commands";
import { keyCaps } from "../commands/keys";
import { useReturnFocus } from "../ui/useReturnFocus";
import classes from "./Designer.module.css";

export default function HelpModal({
  commands,
  onClose,
}: {
  commands: readonly Command[];
  onClose(): void;
}) {
  useReturnFocus();
  const withKeys = commands.filter((command) => command.keys && !/^axis-[2-9]/.test(command.id));
  return (
    <Modal opened onClose={onClose} title="Keys" closeButtonProps={{ "aria-label": "Close" }}>
      <dl className={classes["keys"]}>
        {withKeys.map((command) => (
          <div key={command.id}>
            <dt>
              {command.id === "axis-1"
                ? "Toggle axis n of the mesh on the focused factor"
                : command.label.split(":")[0]}
            </dt>
            <dd>
              {command.id === "axis-1" ? (
                <>
                  <Kbd size="xs">1</Kbd> – <Kbd size="xs">9</Kbd>
                </>
              ) : (
                command.keys?.map((keys) =>
                  keyCaps(keys).map((cap) => (
                    <Kbd key={cap} size="xs">
                      {cap}
                    </Kbd>
                  )),
                )
              )}
            </dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
