/** Light or dark: as the system says, unless the user chose one. */
import { useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";

const KEY = "tollgate-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosen(): Theme | undefined {
  try {
    const text = localStorage.getItem(KEY);
    return text === "light" || text === "dark" ? text : undefined;
  } catch {
    return undefined;
  }
}

const current = (): Theme => chosen() ?? (system.matches ? "dark" : "light");

export function applyTheme(): void {
  document.documentElement.dataset.theme = current();
  for (const changed of listeners) changed();
}

system.addEventListener("change", applyTheme);

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(current);
  useEffect(() => {
    const changed = () => setTheme(current());
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  const toggle = () => {
    try {
      localStorage.setItem(KEY, current() === "dark" ? "light" : "dark");
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    applyTheme();
  };
  return [theme, toggle];
}

/** The value of a CSS variable, for charts. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
