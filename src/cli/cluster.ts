/** `tollgate cluster`: shows L1, the bucket of the cluster, or fills it. */
import * as contract from "../service/operations/contract/contract.js";
import { actionCommand, show } from "./control/operator-command.js";
import { whole } from "./numbers.js";
import { toned } from "./printing.js";

const help = `Usage: tollgate cluster [status]
       tollgate cluster refill

Shows L1, the bucket that all apps share: its level, the tokens that nodes hold, its reserve for the apps' own rates, and the
overdraft of apps that it did not pay. \`refill\` fills it and recounts what nodes hold. Apps and their debts do not change.

Examples:
  tollgate cluster
  tollgate cluster refill --reason "after the incident"
`;

const path = "/admin/ratelimit/cluster";

export const command = actionCommand({
  help,
  isMutating: true,
  defaultAction: "status",
  actions: {
    status: { run: (call) => show(call, { path, reply: contract.clusterReply }, clusterLines) },
    refill: {
      run(call) {
        const body = { action: "refill", ...call.signature };
        return show(call, { method: "POST", path, body, reply: contract.clusterRefillReply }, refillLines);
      },
    },
  },
});

function clusterLines(reply: contract.ClusterReply): string[] {
  const { tokens, held, capacity, rate, reserve, written_off, guaranteed } = reply;
  const apps = `${whole(guaranteed)} tokens per second`;
  const above = guaranteed > rate ? toned("warning", `${apps}, above the cluster's rate`) : apps;
  return [
    `L1            ${whole(tokens)} of ${whole(capacity)} tokens, ${whole(held)} held by nodes`,
    `  refill      ${whole(rate)} tokens per second`,
    `  apps        ${above}`,
    `  reserve     ${whole(reserve)} tokens for the apps' own rates`,
    `  written off ${whole(written_off)} tokens of overdraft`,
  ];
}

function refillLines({ before, after }: contract.ClusterRefillReply): string[] {
  return [
    toned("good", "L1 filled"),
    `  tokens ${whole(before.tokens)} before, ${whole(after.tokens)} now`,
    `  held   ${whole(before.held)} before, ${whole(after.held)} now`,
  ];
}
