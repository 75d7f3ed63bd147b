/** The version of the program, as its package has it. */
import { readFileSync } from "node:fs";

export function programVersion(): string {
  // As far below the package from src/service as from dist/service.
  const text = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
  return String((JSON.parse(text) as { version: unknown }).version);
}
