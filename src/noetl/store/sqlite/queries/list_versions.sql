SELECT version, digest, label, registered FROM catalog WHERE path = ? ORDER BY turn DESC LIMIT ?
