/** Icons of the navigation and of states, drawn with strokes. */
const paths = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  flow: "M5 5h4v4H5zM15 3h4v4h-4zM15 10h4v4h-4zM15 17h4v4h-4zM9 7h3m0 0V5h3m-3 2v5h3m-3 0v7h3",
  apps: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  limits: "M4 19a8 8 0 1 1 16 0M12 19l4-6M8 19h8",
  connections: "M8 12a4 4 0 0 1 4-4h3a4 4 0 0 1 0 8h-1M16 12a4 4 0 0 1-4 4H9a4 4 0 0 1 0-8h1",
  nodes: "M4 5h16v5H4zM4 14h16v5H4zM8 7.5h.01M8 16.5h.01",
  config: "M4 7h9m4 0h3M4 17h3m4 0h9M15 5v4M9 15v4",
  actions: "M13 3 5 13.5h6L10 21l9-11h-6.5z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M5.6 18.4l1.1-1.1M17.3 6.7l1.1-1.1",
  moon: "M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z",
  out: "M10 4H5v16h5M15 8l4 4-4 4M19 12H9",
  alert: "M12 4 2.8 20h18.4zM12 10v4M12 17h.01",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6 6 18",
  check: "M5 12.5 10 17 19 7",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
