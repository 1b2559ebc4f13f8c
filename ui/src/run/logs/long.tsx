import { useEffect, useState } from "preact/hooks";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Loading } from "../../parts/states.tsx";
import { toastProblem } from "../../parts/toast.tsx";
import { withoutCodes } from "../../text/ansi.ts";
import { counted } from "../../text/number.ts";
import { cut } from "../../text/printable.ts";
import { type LogLine, wholeLine } from "./lines.ts";

const STEP = 100_000; // characters at once: the browser has to break them into lines

/** The whole of a long line. */
export function LongLine({ path, line, onClose }: { path: string; line: LogLine; onClose: () => void }) {
  const [text, setText] = useState<string | null>(null);
  const [shown, setShown] = useState(STEP);
  useEffect(() => {
    wholeLine(path, line.number).then(
      (whole) => setText(withoutCodes(whole)),
      (error) => {
        toastProblem("The line was not loaded", error);
        onClose();
      },
    );
  }, [path, line]);
  return (
    <Dialog
      title={`Line of ${line.task}`}
      wide
      onClose={onClose}
      footer={
        text !== null && (
          <>
            <span class="secondary">{counted(text.length, "character")}</span>
            <Copy text={text} what="the line">
              Copy
            </Copy>
            {text.length > shown && <Button onClick={() => setShown(shown + STEP)}>Show more</Button>}
          </>
        )
      }
    >
      {text === null ? <Loading /> : <pre class="log-long">{cut(text, shown)}</pre>}
    </Dialog>
  );
}
