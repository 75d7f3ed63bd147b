/** Arguments of a call about one app: the cluster's numbers, the app's id, its numbers and those of the operation. */
import { wholeNumbers } from "../../core/platform.js";
import { appFault, LIMIT_NUMBERS } from "./app.js";
import { CLUSTER_ARGUMENTS, clusterFault } from "./cluster.js";

export interface AppCall {
  /** The invalid argument, or an empty text. The operation checks its own numbers. */
  fault: string;
  /** The cluster's numbers. */
  limits: number[];
  /** The app's numbers, then those of the operation from LIMIT_NUMBERS on. */
  request: number[];
}

/** The position of the operation's texts, after `own` numbers of the operation. */
export function afterAppCall(own: number): number {
  return CLUSTER_ARGUMENTS + 1 + LIMIT_NUMBERS + own;
}

/** Reads a call with `own` numbers and `texts` texts of the operation. */
export function readAppCall(argv: string[], own: number, texts: number): AppCall {
  if (argv.length !== afterAppCall(own) + texts) return { fault: "arguments", limits: [], request: [] };
  const limits = wholeNumbers(argv, 0, CLUSTER_ARGUMENTS);
  const request = wholeNumbers(argv, CLUSTER_ARGUMENTS + 1, LIMIT_NUMBERS + own);
  const fault = clusterFault(limits);
  return { fault: fault !== "" ? fault : appFault(argv[CLUSTER_ARGUMENTS]!, request), limits, request };
}
