import { Icon } from "../../ui/icons";
import classes from "./Code.module.css";

/** The files of a bundle by their folders. */
export function FileTree({
  paths,
  shown,
  onShow,
}: {
  paths: readonly string[];
  shown: string;
  onShow(path: string): void;
}) {
  const folders = new Map<string, string[]>();
  for (const path of paths) {
    const folder = path.slice(0, Math.max(0, path.lastIndexOf("/")));
    folders.set(folder, [...(folders.get(folder) ?? []), path]);
  }
  return (
    <nav className={classes["tree"]} aria-label="Exported files">
      <ul>
        {[...folders].map(([folder, inside]) => (
          <li key={folder}>
            {folder && (
              <span className={classes["folder"]}>
                <Icon name="folder" size={13} /> {folder}
              </span>
            )}
            <ul>
              {inside.map((path) => (
                <li key={path}>
                  <button
                    type="button"
                    className={`plain-button ${classes["file"]}`}
                    aria-current={path === shown}
                    data-testid={`file:${path}`}
                    onClick={() => onShow(path)}
                  >
                    <Icon name="file" size={13} />
                    {path.slice(folder.length + (folder ? 1 : 0))}
                  </button>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
    </nav>
  );
}
