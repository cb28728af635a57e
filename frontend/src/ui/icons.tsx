// Drawn on a 16 × 16 grid with one stroke width; decoration only, the control around them carries the name.

const SHAPES = {
  undo: "M6 3 2.5 6.5 6 10M3 6.5h6a4 4 0 0 1 0 8H6.5",
  redo: "m10 3 3.5 3.5L10 10M13 6.5H7a4 4 0 0 0 0 8h2.5",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z",
  chevronLeft: "M10 3.5 5.5 8l4.5 4.5",
  chevronRight: "m6 3.5 4.5 4.5L6 12.5",
  chevronDown: "M3.5 6 8 10.5 12.5 6",
  chevronUp: "M3.5 10 8 5.5l4.5 4.5",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  close: "m4 4 8 8M12 4l-8 8",
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  download: "M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  copy: "M6 6h7.5v7.5H6zM3.5 10h-1V2.5H10v1",
  trash: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9M6.7 7v4M9.3 7v4",
  edit: "M10.5 3 13 5.5 5.5 13H3v-2.5L10.5 3Z",
  pin: "M6 2h4l-.5 4L12 8.5H4L6.5 6 6 2ZM8 8.5V14",
  release: "M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5",
  warning: "M8 2 1.5 13.5h13L8 2ZM8 6.5v3.2M8 11.8v.1",
  error: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3.5M8 11v.1",
  note: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.5V11M8 5v.1",
  check: "m3 8.5 3.5 3.5L13 4.5",
  file: "M4 2h5l3 3v9H4V2ZM9 2v3h3",
  folder: "M2 4h4.5L8 5.5h6V13H2V4Z",
  mesh: "M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h4v4h-4z",
  magic: "m3 13 7-7M12 2v3M10.5 3.5h3M5 3v2M4 4h2M13 9v2M12 10h2",
  keys: "M1.5 4h13v8h-13zM4 6.5h.1M7 6.5h.1M10 6.5h.1M12 6.5h.1M5 9.5h6",
  upload: "M8 10.5v-8M4.5 6 8 2.5 11.5 6M2.5 13.5h11",
  play: "M4.5 2.5v11l8.5-5.5-8.5-5.5Z",
  pause: "M5.5 3v10M10.5 3v10",
  swap: "M2.5 5.5h10M10 3l2.5 2.5L10 8M13.5 10.5h-10M6 8l-2.5 2.5L6 13",
  slices: "M2.5 2.5h11v11h-11zM2.5 8h11M8 2.5v11",
  stop: "M4 4h8v8H4z",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={SHAPES[name]} />
    </svg>
  );
}
