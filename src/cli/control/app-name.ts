/** The name of an app as it may stand in a call. */
import { quoted } from "../../config/problem.js";
import { isIdentifier } from "../../core/platform.js";
import { UsageError } from "../command.js";

export function expectApp(name: string | undefined): string {
  if (name !== undefined && isIdentifier(name) && name.length <= 128) return name;
  throw new UsageError(`${quoted(name ?? "")} is no name of an app: 1 to 128 of A–Z a–z 0–9 . _ : -`);
}
