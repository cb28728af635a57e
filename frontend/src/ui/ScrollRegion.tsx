import type { ReactNode } from "react";

/** A region that scrolls and can be reached by keyboard to do so. */
export function ScrollRegion({
  label,
  className,
  children,
}: {
  label: string;
  className: string | undefined;
  children: ReactNode;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: without it, only a mouse could scroll here.
    <section className={className} aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
