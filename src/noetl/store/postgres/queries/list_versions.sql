SELECT version, digest, label, registered FROM catalog WHERE path = %s ORDER BY turn DESC LIMIT %s
