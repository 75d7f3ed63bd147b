/** The version of the program, from package.json. */
import { readFileSync } from "node:fs";

export function programVersion(): string {
  // The path is the same from src and from dist.
  const text = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
  return String((JSON.parse(text) as { version: unknown }).version);
}
