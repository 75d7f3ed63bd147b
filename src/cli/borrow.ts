/** `tollgate borrow` and `tollgate repay`: tokens for an app that is out, against debt, and back. */
import type * as z from "zod";
import type { BorrowReply, RepayReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { expectApp } from "./control/app-name.js";
import { expectWords, type OperatorCall, operatorCommand } from "./control/operator-command.js";
import { FINE, REFUSED } from "./exit-codes.js";
import { counted, readWhole, whole } from "./numbers.js";
import { type Line, type Style, toned, wrapped } from "./printing.js";

const MOST = 1_000_000_000;

export const borrowCommand = operatorCommand({
  name: "borrow",
  summary: "Lend tokens of the cluster to an app that is out",
  help: `Usage: tollgate borrow APP AMOUNT

Puts idle tokens of the cluster into the app's bucket. Its debt grows by 120 % of them, and its refill repays that. At
most half of the guaranteed quota may be owed. Exit code 1 where it is refused.

Examples:
  tollgate borrow video-service 500 --reason "live event"
`,
  isOrder: true,
  async run(call) {
    const reply = await order(call, "/admin/ratelimit/borrow", contract.borrowReply);
    return {
      reply,
      lines: () => borrowLines(reply, call.style),
      exitCode: reply.status === "refused" ? REFUSED : FINE,
    };
  },
});

export const repayCommand = operatorCommand({
  name: "repay",
  summary: "Pay an app's debt from its own tokens",
  help: `Usage: tollgate repay APP AMOUNT

Takes tokens out of the app's bucket and lessens its debt by as many. Exit code 1 where it is refused.

Examples:
  tollgate repay video-service 200
`,
  isOrder: true,
  async run(call) {
    const reply = await order(call, "/admin/ratelimit/repay", contract.repayReply);
    return { reply, lines: () => repayLines(reply), exitCode: reply.status === "refused" ? REFUSED : FINE };
  },
});

async function order<T>({ client, words, signature }: OperatorCall, path: string, reply: z.ZodType<T>): Promise<T> {
  expectWords(words, ["APP", "AMOUNT"]);
  const app_id = expectApp(words[0]);
  const amount = readWhole("AMOUNT", words[1] ?? "", { least: 1, most: MOST });
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

export function repayLines({ status, app_id, code, repaid, debt, remaining }: RepayReply): Line[] {
  const head: Line =
    status === "repaid"
      ? [toned("good", `${app_id} repaid ${counted(repaid, "token")}`)]
      : [toned("bad", "refused"), `: ${code}`];
  return [head, [`  tokens ${whole(remaining)}, debt ${whole(debt)}`]];
}
