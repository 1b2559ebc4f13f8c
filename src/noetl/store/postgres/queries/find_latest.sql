SELECT digest FROM catalog WHERE path = %s ORDER BY turn DESC LIMIT 1
