/** Arguments of a call about one app: the cluster's numbers, the app's id, its numbers and those of the operation. */
import { wholeNumbers } from "../../core/platform.js";
import { appFault } from "./app.js";
import { CLUSTER_ARGUMENTS, clusterFault } from "./cluster.js";
import { LIMIT_NUMBERS } from "./request.js";

/** The position of the operation's texts, after `own` numbers of the operation. */
export function afterAppCall(own: number): number {
  return CLUSTER_ARGUMENTS + 1 + LIMIT_NUMBERS + own;
}

/** The cluster's numbers; empty when there are too few arguments for `own` numbers of the operation. */
export function clusterNumbers(argv: string[], own: number): number[] {
  return argv.length < afterAppCall(own) ? [] : wholeNumbers(argv, 0, CLUSTER_ARGUMENTS);
}

/** The app's numbers, then `own` numbers of the operation from LIMIT_NUMBERS on. */
export function appNumbers(argv: string[], own: number): number[] {
  return argv.length < afterAppCall(own) ? [] : wholeNumbers(argv, CLUSTER_ARGUMENTS + 1, LIMIT_NUMBERS + own);
}

/** The invalid argument, or an empty text. The operation checks its own numbers. */
export function appCallFault(argv: string[], limits: number[], request: number[]): string {
  if (limits.length === 0) return "arguments";
  const fault = clusterFault(limits);
  return fault !== "" ? fault : appFault(argv[CLUSTER_ARGUMENTS]!, request);
}
