/** `tollgate repay`: repays the debt of an app from its own tokens. */
import type { RepayReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { transferTokens } from "./borrow.js";
import { answer, operatorCommand } from "./control/operator-command.js";
import { FINE, REFUSED } from "./exit-codes.js";
import { counted, whole } from "./numbers.js";
import { toned } from "./printing.js";

export const command = operatorCommand({
  help: `Usage: tollgate repay APP AMOUNT

Takes tokens from the bucket of the app and reduces its debt by the same amount. Exit code 1 if this is refused.

Examples:
  tollgate repay video-service 200
`,
  isOrder: true,
  words: ["APP", "AMOUNT"],
  async run(call) {
    const reply = await transferTokens(call, "/admin/ratelimit/repay", contract.repayReply);
    return answer(reply, repayLines, reply.status === "refused" ? REFUSED : FINE);
  },
});

export function repayLines({ status, app_id, code, repaid, debt, remaining }: RepayReply): string[] {
  const isRepaid = status === "repaid";
  return [
    isRepaid ? toned("good", `${app_id} repaid ${counted(repaid, "token")}`) : `${toned("bad", "refused")}: ${code}`,
    `  tokens ${whole(remaining)}, debt ${whole(debt)}`,
  ];
}
