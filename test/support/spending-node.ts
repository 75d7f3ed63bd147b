/** A node that is granted tokens, spends them and counts them, also during faults of the store. */
import type { BucketLimits } from "../../src/core/app-limits.js";
import { StoreError } from "../../src/store/errors.js";
import type { SplitQuota } from "./split-quota.js";

export interface SpendingNode {
  granted: number;
  spent: number;
  /** Outcomes of its calls: "ok" or the kind of the StoreError. */
  outcomes: Map<string, number>;
  /** Sends one message that reports and requests tokens, then spends the grant. Repeats the message after an error. */
  turn(): Promise<void>;
}

export function createSpendingNode(quota: SplitQuota, app: BucketLimits, name: string): SpendingNode {
  let seq = 0;
  let repeat = false;
  const node: SpendingNode = { granted: 0, spent: 0, outcomes: new Map(), turn };

  async function turn(): Promise<void> {
    if (!repeat) seq++;
    const message = { app, granted: node.granted, spent: node.spent, returned: 0, need: 5, want: 20 };
    try {
      const answer = await quota.grant({ node: name, epoch: 1, seq }, [message]);
      const granted = answer.apps[0]?.granted ?? node.granted;
      node.granted = Math.max(node.granted, granted);
      // Tokens are spent only after the message succeeded, so that a repeated message is identical.
      node.spent = Math.max(node.spent, node.granted - 3);
      repeat = false;
      count("ok");
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      repeat = true;
      count(error.kind);
    }
  }

  function count(outcome: string): void {
    node.outcomes.set(outcome, (node.outcomes.get(outcome) ?? 0) + 1);
  }

  return node;
}
