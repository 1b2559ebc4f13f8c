SELECT digest FROM catalog WHERE path = %s AND version = %s
