/** Saves an answer of the API as a file. A link cannot carry a token or choose a media type. */

import { problemOf, type RequestOptions, send } from "../api/client.ts";
import { toastProblem } from "./toast.tsx";

export async function download(path: string, name: string, options: RequestOptions = {}): Promise<void> {
  try {
    const response = await send("GET", path, options);
    if (!response.ok) throw await problemOf(response);
    const address = URL.createObjectURL(await response.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    toastProblem(`${name} was not downloaded`, error);
  }
}
