SELECT digest FROM catalog WHERE path = ? ORDER BY turn DESC LIMIT 1
