SELECT digest FROM catalog WHERE path = ? AND version = ?
