/** `tollgate borrow`: lends tokens of the cluster to an app. */
import type * as z from "zod";
import type { BorrowReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { expectApp, type OperatorCall, operatorCommand } from "./control/operator-command.js";
import { FINE, REFUSED } from "./exit-codes.js";
import { counted, readWhole, whole } from "./numbers.js";
import { type Line, type Style, toned, wrapped } from "./printing.js";

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
    const exitCode = reply.status === "refused" ? REFUSED : FINE;
    return { reply, lines: () => borrowLines(reply, call.style), exitCode };
  },
});

/** Sends APP and AMOUNT; also for `tollgate repay`. */
export async function transferTokens<T>(call: OperatorCall, path: string, reply: z.ZodType<T>): Promise<T> {
  const { client, words, signature } = call;
  const app_id = expectApp(words[0]);
  const amount = readWhole("AMOUNT", words[1] ?? "", { least: 1, most: MAX_AMOUNT });
  return client.call({ method: "POST", path, body: { app_id, amount, ...signature }, reply });
}

export function borrowLines(reply: BorrowReply, style: Style): Line[] {
  const { status, app_id, code, borrowed, debt, remaining, borrowable, explanation } = reply;
  const head: Line[] =
    status === "borrowed"
      ? [[toned("good", `${app_id} borrowed ${counted(borrowed, "token")}`)]]
      : [[toned("bad", "refused"), `: ${code}`], ...wrapped(explanation, style, "  ")];
  return [...head, [`  tokens ${whole(remaining)}, debt ${whole(debt)}, may borrow ${whole(borrowable)} more`]];
}
