/** Scrolls the region around an element, and nothing around that, so far that it is seen; `always` if it is seen already, too. */
export function bringIntoView(element: Element | null | undefined, always = false): void {
  const region = element?.closest("section[tabindex]");
  if (!element || !region) return;
  const [own, room] = [element.getBoundingClientRect(), region.getBoundingClientRect()];
  const seen = own.top >= room.top && own.bottom <= room.bottom;
  if (always || !seen) region.scrollTop += own.top - room.top - room.height / 3;
}
