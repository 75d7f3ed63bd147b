/** `tollgate borrow`: lends tokens of the cluster to an app. */
import type * as z from "zod";
import type { BorrowReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { answer, expectApp, type OperatorCall, operatorCommand } from "./control/operator-command.js";
import { FINE, REFUSED } from "./exit-codes.js";
import { counted, readWhole, whole } from "./numbers.js";
import { toned, wrapped } from "./printing.js";

const MAX_AMOUNT = 1_000_000_000;

export const command = operatorCommand({
  help: `Usage: tollgate borrow APP AMOUNT

Adds idle tokens of the cluster to the bucket of the app. Its debt grows by 120 % of them and is repaid from its refill.
The debt is limited to half of the guaranteed quota. Exit code 1 if this is refused.

Examples:
  tollgate borrow video-service 500 --reason "live event"
`,
  isOrder: true,
  words: ["APP", "AMOUNT"],
  async run(call) {
    const reply = await transferTokens(call, "/admin/ratelimit/borrow", contract.borrowReply);
    return answer(reply, (shown) => borrowLines(shown, call.columns), reply.status === "refused" ? REFUSED : FINE);
  },
});

/** Sends APP and AMOUNT; also for `tollgate repay`. */
export async function transferTokens<T>(
  { client, words, signature }: OperatorCall,
  path: string,
  reply: z.ZodType<T>,
): Promise<T> {
  const app_id = expectApp(words[0]);
  const amount = readWhole("AMOUNT", words[1] ?? "", { least: 1, most: MAX_AMOUNT });
  return client.call({ method: "POST", path, body: { app_id, amount, ...signature }, reply });
}

export function borrowLines(reply: BorrowReply, columns: number): string[] {
  const { status, app_id, code, borrowed, debt, remaining, borrowable, explanation } = reply;
  const head =
    status === "borrowed"
      ? [toned("good", `${app_id} borrowed ${counted(borrowed, "token")}`)]
      : [`${toned("bad", "refused")}: ${code}`, ...wrapped(explanation, columns, "  ")];
  return [...head, `  tokens ${whole(remaining)}, debt ${whole(debt)}, may borrow ${whole(borrowable)} more`];
}
