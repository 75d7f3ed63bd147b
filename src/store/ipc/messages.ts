/** Messages between a worker and the primary process about the store, and the channel that carries them. */
import type { ScriptName } from "../../scripts/catalog.js";
import type { StoreErrorKind } from "../errors.js";

export type StoreCall =
  | { store: "run"; id: number; script: ScriptName; keys: string[]; args: string[]; deadlineMs: number }
  | { store: "publish"; id: number; channel: string; message: string; deadlineMs: number }
  | { store: "subscribe"; id: number; channel: string; deadlineMs: number }
  | { store: "inspect"; id: number }
  | { store: "unsubscribe"; channel: string };

export type StoreAnswer =
  | { store: "answer"; id: number; value: unknown }
  | { store: "failure"; id: number; kind: StoreErrorKind; message: string }
  | { store: "message"; channel: string; message: string };

/** One end of the IPC channel: `process` in a worker, `worker.process` in the primary. */
export interface IpcEnd {
  readonly connected: boolean;
  send?(message: object, done: (error: Error | null) => void): boolean;
  on(event: "message", handler: (message: unknown) => void): unknown;
  on(event: "disconnect", handler: () => void): unknown;
  off(event: "message", handler: (message: unknown) => void): unknown;
  off(event: "disconnect", handler: () => void): unknown;
}

/** The channel also carries other messages. */
export function isStoreMessage(message: unknown): message is { store: string } {
  return typeof message === "object" && message !== null && typeof (message as { store?: unknown }).store === "string";
}

/** Never throws; calls `failed` if the other end cannot be reached. */
export function sendOn(end: IpcEnd, message: StoreCall | StoreAnswer, failed: (error: Error) => void): void {
  if (!end.connected || end.send === undefined) {
    failed(new Error("the IPC channel is closed"));
    return;
  }
  try {
    end.send(message, (error) => {
      if (error !== null) failed(error);
    });
  } catch (error) {
    failed(error instanceof Error ? error : new Error(String(error)));
  }
}
