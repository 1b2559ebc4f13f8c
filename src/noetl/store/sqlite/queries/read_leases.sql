SELECT fence, run, worker, since FROM lease WHERE execution = ?
