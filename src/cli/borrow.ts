/** `tollgate borrow` and `tollgate repay`: tokens that the cluster lends to an app. */
import * as contract from "../service/operations/contract/contract.js";
import { EXIT_OK, EXIT_REFUSED } from "./command.js";
import { expectApp, type OperatorCall, operatorCommand, show } from "./control/operator-command.js";
import { counted, readWhole, whole } from "./numbers.js";
import { toned, wrapped } from "./printing.js";

const MAX_AMOUNT = 1_000_000_000;

/** The body for APP and AMOUNT. */
function transfer({ words, signature }: OperatorCall<Record<never, never>>) {
  const app_id = expectApp(words.required("APP"));
  return {
    app_id,
    amount: readWhole("AMOUNT", words.required("AMOUNT"), { least: 1, most: MAX_AMOUNT }),
    ...signature,
  };
}

const exitCode = ({ status }: { status: string }) => (status === "refused" ? EXIT_REFUSED : EXIT_OK);

export const borrow = operatorCommand({
  help: `Usage: tollgate borrow APP AMOUNT

Adds idle tokens of the cluster to the bucket of the app. Its debt grows by 120 % of them and is repaid from its refill.
The app needs borrow: true, and gets at most half of what its guaranteed rate brings in one second. To raise a limit, use
tollgate config put. Exit code 1 if this is refused.

Examples:
  tollgate borrow video-service 500 --reason "one large upload"
`,
  isMutating: true,
  words: ["APP", "AMOUNT"],
  run(call) {
    const request = { path: "/admin/ratelimit/borrow", body: transfer(call), reply: contract.borrowReply };
    return show(call, { method: "POST", ...request }, borrowLines, exitCode);
  },
});

export const repay = operatorCommand({
  help: `Usage: tollgate repay APP AMOUNT

Forgives up to AMOUNT tokens that the app has spent without cover, for example in an outage: its bucket is below zero. What
is left of AMOUNT repays borrowed tokens at once: it is taken from the bucket, and reduces the debt. Exit code 1 if this is
refused.

Examples:
  tollgate repay video-service 200
`,
  isMutating: true,
  words: ["APP", "AMOUNT"],
  run(call) {
    const request = { path: "/admin/ratelimit/repay", body: transfer(call), reply: contract.repayReply };
    return show(call, { method: "POST", ...request }, repayLines, exitCode);
  },
});

export function borrowLines(reply: contract.BorrowReply, columns: number): string[] {
  const { status, app_id, code, borrowed, debt, remaining, borrowable, explanation } = reply;
  const head =
    status === "borrowed"
      ? [toned("good", `${app_id} borrowed ${counted(borrowed, "token")}`)]
      : [`${toned("bad", "refused")}: ${code}`, ...wrapped(explanation, columns, "  ")];
  return [...head, `  tokens ${whole(remaining)}, debt ${whole(debt)}, may borrow ${whole(borrowable)} more`];
}

export function repayLines({ status, app_id, code, repaid, debt, remaining }: contract.RepayReply): string[] {
  const isRepaid = status === "repaid";
  return [
    isRepaid ? toned("good", `${app_id} repaid ${counted(repaid, "token")}`) : `${toned("bad", "refused")}: ${code}`,
    `  tokens ${whole(remaining)}, debt ${whole(debt)}`,
  ];
}
